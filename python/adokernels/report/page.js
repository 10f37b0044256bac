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
    const known = [...details.querySelectorAll("tbody tr")];
    const rows = tables.map((table) => [...table.querySelectorAll("tbody tr")]);
    const charts = [...section.querySelectorAll("svg.chart")]
      .map((svg) => ({ svg, marks: [...svg.querySelectorAll('[id*="-point-"]')] }))
      .filter((chart) => chart.marks.length);
    const rowOf = (mark) => Number(mark.id.match(/-point-\d+-(\d+)-/)[1]);

    let picked = null;

    // Highlight a row, or none if it is null.
    function pick(row) {
      if (row === picked) return;
      picked = row;
      for (const part of section.querySelectorAll(".picked")) part.classList.remove("picked");
      for (const { svg, marks } of charts) {
        const ours = marks.filter((mark) => rowOf(mark) === row);
        svg.classList.toggle("picking", ours.length > 0);
        for (const mark of ours) mark.classList.add("picked");
      }
      readout.hidden = row === null;
      if (row === null) return;
      for (const table of rows) table[row].classList.add("picked");
      show(known[row], names);
    }

    // A touch ends after each tap, so the readout then stays until the next tap.
    function leave(event) {
      if (event.pointerType === "mouse") pick(null);
    }

    function onPointer(event, marks) {
      let nearest = null;
      let least = REACH;
      for (const mark of marks) {
        const found = distance(mark, event);
        if (found < least) [nearest, least] = [mark, found];
      }
      pick(nearest && rowOf(nearest));
    }

    // The up and down keys pick another variant while a chart or table has the keyboard focus.
    function onKey(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      pick(Math.min(Math.max((picked ?? -1) + step, 0), known.length - 1));
    }

    for (const box of [...tables, ...charts.map(({ svg }) => svg.closest(".scroll"))]) {
      box.addEventListener("keydown", onKey);
      box.addEventListener("blur", () => pick(null));
    }
    for (const lines of rows) {
      lines.forEach((line, row) => {
        line.addEventListener("pointerenter", () => pick(row));
        line.addEventListener("pointerleave", leave);
      });
    }
    for (const { svg, marks } of charts) {
      for (const kind of ["pointermove", "pointerdown"]) {
        svg.addEventListener(kind, (event) => onPointer(event, marks));
      }
      svg.addEventListener("pointerleave", leave);
      const hint = document.createElement("p");
      hint.className = "hint";
      hint.textContent = "Point at a variant to see its numbers, or press the up and down keys.";
      svg.closest(".scroll").after(hint);
    }
  }

  document.querySelectorAll("section").forEach(link);
})();
