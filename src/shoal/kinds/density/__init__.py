"""People per zone and slot."""
