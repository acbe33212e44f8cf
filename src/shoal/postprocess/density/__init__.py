"""Post-processing of densities and answers: noisy in, noisy out."""
