"""The comparison that ``sonline demo`` runs, and how it is shown."""
