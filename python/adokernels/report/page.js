// Shows the numbers of the variant under the pointer, and highlights it in all charts and tables of
// its section. The page is complete without this script: the section's table "Each variant"
// contains the same numbers. The identifiers of the marks of row R of a sweep contain "point-0-R-".
"use strict";
(() => {
  const REACH = 30; // Maximum distance from the pointer to a mark, in pixels.
  const LONG = 40; // Longer texts have their own line; in characters.
  const readout = document.createElement("div");
  readout.id = "readout";
  readout.setAttribute("role", "status");
  readout.hidden = true;
  document.body.append(readout);
  let clear = () => {};

  function show(row, names) {
    const title = document.createElement("strong");
    title.textContent = row.cells[0].textContent;
    const list = document.createElement("dl");
    for (let column = 1; column < names.length; column += 1) {
      const text = row.cells[column].textContent;
      if (!text) continue;
      const term = document.createElement("dt");
      const value = document.createElement("dd");
      term.textContent = names[column];
      value.textContent = text;
      if (text.length > LONG) for (const part of [term, value]) part.className = "long";
      list.append(term, value);
    }
    readout.replaceChildren(title, list);
    readout.hidden = false;
  }

  // Place the readout beside the pointer, or at the bottom of the window if there is no pointer.
  function place(pointer) {
    readout.className = pointer ? "" : "docked";
    readout.style.left = readout.style.top = "";
    if (!pointer) return;
    const box = readout.getBoundingClientRect();
    const fits = pointer.clientX + 16 + box.width < document.documentElement.clientWidth;
    const left = fits ? pointer.clientX + 16 : pointer.clientX - 16 - box.width;
    const top = Math.min(pointer.clientY + 16, window.innerHeight - box.height - 8);
    readout.style.left = `${Math.max(8, left)}px`;
    readout.style.top = `${Math.max(8, top)}px`;
  }

  function distance(mark, pointer) {
    const box = mark.getBoundingClientRect();
    const across = Math.max(box.left - pointer.clientX, 0, pointer.clientX - box.right);
    const down = Math.max(box.top - pointer.clientY, 0, pointer.clientY - box.bottom);
    return Math.hypot(across, down);
  }

  function link(section) {
    const tables = [...section.querySelectorAll(".variants")];
    const details = tables.find((table) => table.classList.contains("details"));
    if (!details) return;
    const names = [...details.querySelectorAll("th")].map((cell) => cell.textContent);
    const rows = tables.map((table) => [...table.querySelectorAll("tbody tr")]);
    const known = [...details.querySelectorAll("tbody tr")];
    const charts = [...section.querySelectorAll("svg.chart")]
      .map((svg) => ({ svg, marks: [...svg.querySelectorAll('[id*="-point-"]')] }))
      .filter((chart) => chart.marks.length);
    const rowOf = (mark) => Number(mark.id.match(/-point-\d+-(\d+)-/)[1]);
    let picked = -1;

    function unpick() {
      picked = -1;
      readout.hidden = true;
      for (const part of section.querySelectorAll(".picked")) part.classList.remove("picked");
      for (const { svg } of charts) svg.classList.remove("picking");
    }

    function pick(row, pointer) {
      if (row !== picked) {
        clear();
        clear = unpick;
        picked = row;
        for (const table of rows) table[row].classList.add("picked");
        for (const { svg, marks } of charts) {
          const ours = marks.filter((mark) => rowOf(mark) === row);
          svg.classList.toggle("picking", ours.length > 0);
          for (const mark of ours) mark.classList.add("picked");
        }
        show(known[row], names);
      }
      place(pointer);
    }

    // A box with the keyboard focus shows a variant. Arrow keys pick the next or previous variant.
    function addKeys(box) {
      box.addEventListener("keydown", onKey);
      box.addEventListener("focus", () => {
        if (box.matches(":focus-visible")) pick(Math.max(picked, 0), null);
      });
      box.addEventListener("blur", () => clear());
    }

    function onKey(event) {
      const last = known.length - 1;
      const targets = { ArrowDown: Math.min(picked + 1, last), ArrowUp: Math.max(picked - 1, 0),
        Home: 0, End: last };
      if (event.key === "Escape") clear();
      if (!(event.key in targets)) return;
      event.preventDefault();
      pick(targets[event.key], null);
    }

    function onPointer(event, marks) {
      let nearest = null;
      let least = REACH;
      for (const mark of marks) {
        const found = distance(mark, event);
        if (found < least) [nearest, least] = [mark, found];
      }
      if (nearest) pick(rowOf(nearest), event.pointerType === "mouse" ? event : null);
      else clear();
    }

    tables.forEach((table, place) => {
      addKeys(table);
      rows[place].forEach((line, row) => {
        line.addEventListener("pointerenter", () => pick(row, null));
      });
      table.addEventListener("pointerleave", leave);
    });
    for (const { svg, marks } of charts) {
      const box = svg.closest(".scroll");
      addKeys(box);
      for (const kind of ["pointermove", "pointerdown"]) {
        svg.addEventListener(kind, (event) => onPointer(event, marks));
      }
      svg.addEventListener("pointerleave", leave);
      const hint = document.createElement("p");
      hint.className = "hint";
      hint.textContent = "Point at a variant to see its numbers, or press the up and down keys.";
      box.after(hint);
    }
  }

  // A touch ends after each tap, so the readout then stays until the next tap.
  function leave(event) {
    if (event.pointerType === "mouse") clear();
  }
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".variants, svg.chart")) clear();
  });

  document.querySelectorAll("section").forEach(link);
})();
