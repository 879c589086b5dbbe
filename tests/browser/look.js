// look.js: what a person would notice on a page: texts that touch each other or leave the window, and texts that are
// hard to read. An expression: its value is a list of complaints.
(() => {
    const found = [], boxes = [];
    const luminance = c => {
        const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const colour = text => {
        const m = text && text.match(/^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)/);
        return m && (m[4] === undefined || Number(m[4]) > 0) ? m.slice(1, 4).map(Number) : null;
    };
    const behind = element => {
        for (let e = element; e; e = e.parentElement) {
            if (e instanceof SVGElement && e !== document.documentElement) {
                if (e.tagName === "text" && e.classList.contains("w")) {
                    const box = e.previousElementSibling;
                    if (box) return colour(getComputedStyle(box).fill);
                }
                continue;
            }
            const c = colour(getComputedStyle(e).backgroundColor);
            if (c) return c;
        }
        return [255, 255, 255];
    };
    const check = (element, text, rects) => {
        const style = getComputedStyle(element);
        const ink = colour(element instanceof SVGElement ? style.fill : style.color), back = behind(element);
        if (ink && back) {
            const a = luminance(ink), b = luminance(back), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
            if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${text}`);
        }
        for (const r of rects) {
            if (r.width < 1 || r.height < 1) continue;
            if (r.left < -1 || r.right > innerWidth + 1) found.push(`cut off at ${innerWidth}: ${text}`);
            const drawing = element.closest("svg"), edge = drawing && drawing.getBoundingClientRect();
            if (edge && (r.left < edge.left - 1 || r.right > edge.right + 1)) found.push(`cut off by its chart: ${text}`);
            boxes.push([r, text, element]);
        }
        const lines = new Set(rects.map(r => Math.round(r.top)));
        if (/^[A-Za-z]{1,12}$|^[\d.]{1,9}$/.test(text) && lines.size > 1) found.push(`broken: ${text}`);
    };
    const walker = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
        const text = node.textContent.trim(), element = node.parentElement;
        if (!text || !element || ["SCRIPT", "STYLE", "TITLE", "title", "OPTION", "SELECT"].includes(element.tagName)) continue;
        if (!element.checkVisibility({ checkVisibilityCSS: true })) continue;
        let clipped = false; // inside something that scrolls
        for (let e = element; e; e = e.parentElement)
            if (e.id === "runs" && e.scrollHeight > e.clientHeight) clipped = true;
        if (clipped) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        check(element, text.slice(0, 40), [...range.getClientRects()]);
    }
    boxes.sort((a, b) => a[0].top - b[0].top);
    for (let i = 0; i < boxes.length; i++)
        for (let k = i + 1; k < boxes.length && boxes[k][0].top < boxes[i][0].bottom - 2; k++) {
            const a = boxes[i][0], b = boxes[k][0];
            const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (wide > 1 && high > 3) found.push(`overlap: ${boxes[i][1]} | ${boxes[k][1]}`);
        }
    if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`wider than the window: ${document.documentElement.scrollWidth}`);
    return found;
})()
