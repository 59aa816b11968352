"""Model → text for people and other tools."""
