"""Baselines that generalise or move records; none carries an epsilon."""
