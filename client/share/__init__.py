"""How one device is divided into fixed shares, one for each client."""
