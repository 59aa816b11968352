"""The report for people and programs: screen, page, exports."""
