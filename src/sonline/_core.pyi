"""The native core of sonline."""
