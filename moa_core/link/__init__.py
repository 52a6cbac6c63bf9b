"""Target on a server, drafter on a device, and the network between them."""
