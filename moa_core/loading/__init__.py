"""From a name, a folder or a Hub id to a target and its drafter."""
