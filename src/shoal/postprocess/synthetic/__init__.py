"""Post-processing of movement models: noisy in, synthetic trips and events out."""
