"""What no capability owns and all of them use."""
