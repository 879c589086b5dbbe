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

    function place(ends, share) {
        const [first, last, log] = ends;
        return log ? first * Math.pow(last / first, share) : first + (last - first) * share;
    }

    function number(value) {
        const size = Math.abs(value);
        return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(5)));
    }

    function duration(seconds) {
        for (const [from, size, name] of [[172800, 86400, "days"], [7200, 3600, "h"], [120, 60, "min"], [1, 1, "s"]])
            if (seconds >= from) return number(seconds / size) + " " + name;
        return number(seconds * 1e3) + " ms";
    }

    function text(value, unit) {
        if (unit === "s") return duration(value);
        if (unit === "share") return number(100 * value) + " %";
        return unit === "bytes" ? number(value / 2 ** 30) + " GiB" : number(value);
    }

    function nearest(points, x) {
        let best = points[0];
        for (const point of points) if (Math.abs(point[0] - x) < Math.abs(best[0] - x)) best = point;
        return best;
    }

    // Of each curve name, colour and [x, y] as they were recorded; of long runs the least and the greatest of some steps.
    function read(plot) {
        const curves = [];
        for (const group of plot.querySelectorAll("g[data-points]")) {
            const flat = group.dataset.points.split(" ").map(Number), points = [];
            for (let i = 0; i + 1 < flat.length; i += 2) points.push([flat[i], flat[i + 1]]);
            const line = group.querySelector("path");
            const colour = line ? getComputedStyle(line).stroke : getComputedStyle(group.firstElementChild).fill;
            if (points.length) curves.push({name: group.dataset.name, colour, points});
        }
        return curves;
    }

    // The recorded place nearest to the pointer, and of each curve that reaches it the value nearest to it.
    function show(plot, x) {
        const name = plot.dataset.xName, curves = read(plot);
        const title = at => name === "time" ? duration(at) : name + " " + Math.round(at).toLocaleString("en-US");
        if (!curves.length) return false;
        const at = nearest(curves.map(c => nearest(c.points, x)), x)[0];
        const head = document.createElement("div");
        head.textContent = title(at);
        tip.replaceChildren(head);
        for (const {name, colour, points} of curves) {
            if (at < points[0][0] || at > points[points.length - 1][0]) continue;
            const [own, value] = nearest(points, at);
            const row = document.createElement("div"), parts = ["i", "span", "b"].map(tag => document.createElement(tag));
            parts[0].style.background = colour;
            parts[1].textContent = name;
            parts[2].textContent = text(value, plot.dataset.unit) + (own === at ? "" : " at " + title(own));
            row.append(...parts);
            tip.append(row);
        }
        return true;
    }

    main.addEventListener("pointermove", event => {
        const svg = event.target.closest("svg");
        const plot = svg && svg.querySelector("g.plot");
        const values = plot && svg.closest("figure").querySelector("g.plot[data-unit]"); // the wide chart has them
        tip.hidden = true;
        if (!values) return;
        const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
        const [left, top, width, height] = plot.dataset.box.split(" ").map(Number);
        const edge = 4; // the first and the last step are easily missed
        if (at.x < left - edge || at.x > left + width + edge || at.y < top || at.y > top + height) return;
        const share = Math.min(1, Math.max(0, (at.x - left) / width));
        tip.hidden = !show(values, place(plot.dataset.x.split(" ").map(Number), share));
        const wide = tip.offsetWidth;
        tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - wide - 8)) + scrollX + "px";
        tip.style.top = event.clientY + 14 + scrollY + "px";
    });
    main.addEventListener("pointerleave", () => { tip.hidden = true; });

    listen();
})();
