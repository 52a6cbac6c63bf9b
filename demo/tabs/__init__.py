"""One file a tab: `build` makes the components, `wire` connects them."""
