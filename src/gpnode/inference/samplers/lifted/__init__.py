"""The default sampler: rotations on the surface that the data pin down, and NUTS for the hyperparameters."""
