"""Private collection: nobody but the user sees which values occur together."""
