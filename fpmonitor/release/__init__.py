"""What may be published: k-anonymous releases, and the attacks that test them."""
