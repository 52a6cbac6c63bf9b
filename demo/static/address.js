(tab => {
  const address = new URL(window.location);
  const named = address.searchParams.get("tab");
  // A page selects its first tab as it opens, before it turns to the one that the address names.
  const opening = !document.body.dataset.opened && named && named !== tab;
  document.body.dataset.opened = "yes";
  if (opening) return;
  address.searchParams.set("tab", tab);
  history.replaceState(null, "", address);
})
