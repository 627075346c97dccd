"""A learning service: durable events, delayed labels, versions, and a page to watch it learn."""
