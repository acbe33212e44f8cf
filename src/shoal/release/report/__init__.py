"""The owner's report of a release: one HTML file that opens offline. Raw figures inside: never published."""

from shoal.release.report.density import DensityReportInputs, write_density_report

__all__ = ["DensityReportInputs", "write_density_report"]
