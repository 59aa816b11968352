"""A plan and template texts become the text of a script."""
