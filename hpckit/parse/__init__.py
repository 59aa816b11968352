"""Foreign text becomes a value of the model, or a typed error that names the place."""
