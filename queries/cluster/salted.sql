SELECT high AS first_high, low AS first_low, xor(content_high, {salt_high}) AS high, xor(content_low, {salt_low}) AS low FROM ({mixed}) AS mixed
