"""The HTML shell of reports: page, tables, map payload. Each report is one file that opens offline."""
