"""Target on a server, drafter on a device, and a network between them."""
