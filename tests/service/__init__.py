"""What both kinds of nodes share as processes."""
