"""Reports: one HTML file each, that opens offline. The owner's has raw figures inside: never published."""

from shoal.release.report.compare import CompareReportInputs, write_compare_report
from shoal.release.report.density import DensityReportInputs, OtherSeries, write_density_report

__all__ = [
    "CompareReportInputs",
    "DensityReportInputs",
    "OtherSeries",
    "write_compare_report",
    "write_density_report",
]
