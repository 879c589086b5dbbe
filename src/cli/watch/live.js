// live.js: the page stays as it is and its sections are replaced as they change. Without this script the page is
// whole, and shows the moment at which it was loaded.
"use strict";
(() => {
    const state = document.getElementById("state");
    const main = document.getElementById("page");
    let source = null;
    let has = document.currentScript.dataset.has; // what this page shows, as the server names it

    function replace(id, html) {
        let section = document.getElementById("s-" + id);
        if (!section) {
            section = document.createElement("section");
            section.id = "s-" + id;
            main.append(section);
        }
        section.innerHTML = html; // made by the server, with every text of a run escaped
    }

    function take(event) {
        has = event.lastEventId;
        const news = JSON.parse(event.data);
        for (const [id, html] of news.sections) replace(id, html);
        const wanted = new Set(news.order.map(id => "s-" + id));
        for (const section of [...main.children]) if (!wanted.has(section.id)) section.remove();
        for (const id of news.order) main.append(document.getElementById("s-" + id));
        if (news.table !== undefined) document.getElementById("runs").innerHTML = news.table;
        document.body.dataset.updates = Number(document.body.dataset.updates || 0) + 1;
    }

    function listen() {
        if (source) source.close();
        const query = new URLSearchParams(location.search);
        query.set("has", has);
        source = new EventSource("/events?" + query);
        source.addEventListener("page", take);
        source.onopen = () => { state.textContent = "live"; state.className = "live"; };
        source.onerror = () => {
            state.textContent = "waiting for the server";
            state.className = "away";
            if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000); // refused: it does not try again itself
        };
    }

    // Choices take effect at once.
    const form = document.getElementById("choices");
    function choose() {
        const query = new URLSearchParams(new FormData(form));
        history.replaceState(null, "", "/?" + query);
        listen();
    }
    form.addEventListener("change", choose);
    form.addEventListener("submit", event => { event.preventDefault(); choose(); });

    // The values under the pointer.
    const tip = document.createElement("div");
    tip.id = "tip";
    tip.hidden = true;
    document.body.append(tip);

    function scale(ends, share) {
        const [first, last, log] = ends;
        return log ? first * Math.pow(last / first, share) : first + (last - first) * share;
    }

    function text(value) {
        const size = Math.abs(value);
        return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
    }

    function values(plot, x) {
        const found = [];
        for (const path of plot.querySelectorAll("path[class^=s]:not(.f)")) {
            let best = null;
            for (const [, px, py] of (path.getAttribute("d") || "").matchAll(/[ML]([-\d.]+) ([-\d.]+)/g))
                if (best === null || Math.abs(px - x) < Math.abs(best[0] - x)) best = [Number(px), Number(py)];
            if (best) found.push(best);
        }
        return found;
    }

    main.addEventListener("pointermove", event => {
        const svg = event.target.closest("svg");
        const plot = svg && svg.querySelector("g.plot");
        tip.hidden = true;
        if (!plot) return;
        const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
        const [left, top, width, height] = plot.dataset.box.split(" ").map(Number);
        if (at.x < left || at.x > left + width || at.y < top || at.y > top + height) return;
        const xs = plot.dataset.x.split(" ").map(Number), ys = plot.dataset.y.split(" ").map(Number);
        const found = values(plot, at.x);
        if (!found.length) return;
        tip.textContent = text(scale(xs, (found[0][0] - left) / width)) + ": " +
            found.map(([, y]) => text(scale(ys, (top + height - y) / height))).join(", ");
        tip.hidden = false;
        const wide = tip.offsetWidth;
        tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - wide - 8)) + scrollX + "px";
        tip.style.top = event.clientY + 14 + scrollY + "px";
    });
    main.addEventListener("pointerleave", () => { tip.hidden = true; });

    listen();
})();
