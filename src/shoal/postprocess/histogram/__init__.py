"""Post-processing of histograms of trips: noisy in, noisy out."""
