"""Evaluations and profiles as tables, pictures and the report page."""
