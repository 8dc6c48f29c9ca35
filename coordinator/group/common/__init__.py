"""What both kinds of groups share. Pure."""
