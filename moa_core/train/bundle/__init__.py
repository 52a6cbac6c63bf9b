"""The bundled target's own training text: made stories, manners and tasks."""
