"""Evaluations and profiles for people to look at: tables, pictures, the report page."""
