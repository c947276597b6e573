// A box that ticks all others of its page. Without scripts each is ticked by hand.
for (const all of document.querySelectorAll("input[data-all]")) {
    all.addEventListener("change", () => {
        for (const one of document.getElementsByName(all.dataset.all)) one.checked = all.checked;
    });
}
