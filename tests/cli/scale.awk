# scale.awk: what scale.test wants to know of `lockstep scale --json`, read as json.awk lists it, in a few lines.

{ found[$1] = substr($0, length($1) + 2) }

function of(p, member) { return found[".models.0.measured." p "." member] }
function missing(p, member) { return !((".models.0.measured." p "." member) in found) }

END {
    sizes = found[".models.0.measured.length"]
    latency = parts = slower = "yes"
    pairs = 0
    for (p = 0; p < sizes; p++) {
        for (i = split("workers step_s compute_s sync_s idle_s overhead_s hidden_s speedup", names, " "); i > 0; i--)
            if (missing(p, names[i])) print "size " p " has no " names[i]
        left = of(p, "compute_s") + of(p, "sync_s") + of(p, "idle_s") + of(p, "overhead_s") - of(p, "step_s")
        if (left < 0) left = -left
        if (!(left < 0.02 * of(p, "step_s"))) parts = "no"
        if (of(p, "workers") != 2) continue
        if (!pairs++) first = p
        if (!(of(p, "sync_s") + of(p, "hidden_s") > 0.02)) latency = "no"
        if (of(p, "speedup") != "null" && !(of(p, "speedup") + 0 < 0.5)) slower = "no"
    }
    kinds = ""
    for (i = split("all-gather all-reduce all-to-all barrier broadcast reduce-scatter send", names, " "); i > 0; i--)
        if (!missing(first, "kinds." names[i] ".messages")) kinds = " " names[i] kinds
    count = 0
    for (name in found) if (name ~ ("^\\.models\\.0\\.measured\\." first "\\.kinds\\.[^.]*\\.messages$")) count++
    message = found[".models.0.fit.message_s"] + 0
    print "sizes " sizes ", of two workers " pairs ", link " found[".link_latency_s"] " " found[".link_bytes_per_s"]
    print "latency " latency ", " count " kinds:" kinds
    print "parts " parts
    print "message " (message > 0.001 && message < 0.02 ? "yes" : "no") ", slower " slower
    print "best " found[".models.0.best_workers"] ", bandwidth " found[".models.0.crossovers.0.bandwidth"]
}
