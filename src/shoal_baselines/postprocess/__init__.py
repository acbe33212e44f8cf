"""Post-processing of the published mechanisms: noisy in, noisy out."""
