# doctor.sh: sourced by cases of doctor.test: run_of KIND makes the folder `run` with the metrics of a run that never was: 300 steps of
# four workers, healthy or with one failure. set_times RUN BUSY NET puts other times into the steps of a real run of two workers: what a busy
# machine made of them is no matter then.
set_times() {
    awk -v busy="$2" -v net="$3" '
    /"loss_hex"/ {
        sub(/"ms":[^,]*/, "\"ms\":" busy + net)
        sub(/,"busy_ms".*/, "")
        printf "%s,\"busy_ms\":[%s,%s],\"wait_ms\":[%s,%s],\"net_ms\":[%s,%s],\"input_ms\":[0,0],\"queued_ms\":[0,0],\"cpu_ms\":[%s,%s]}\n", $0, busy, busy, net, net, net, net, busy, busy
        next
    }
    { print }' "$1/metrics.jsonl" > times.jsonl && mv times.jsonl "$1/metrics.jsonl"
}
run_of() {
    mkdir -p run
    precision=bf16
    case $1 in overflow | underflow | healthy) precision=fp16 ;; esac
    echo "{\"precision\": \"$precision\", \"lr\": \"0.001\", \"warmup\": \"20\", \"steps\": \"300\", \"global-batch\": \"16\", \"loss-scale\": \"dynamic\"}" > run/config.json
    echo '{"dp": 4, "tp": 1, "pp": 1, "shares": "2,2,2,2"}' > run/layout.json
    echo '{"fields": {"groups": 8}}' > run/identity.json
    awk -v kind="$1" '
    function noise(s) { return sin(12.9898 * s) + sin(4.1 * s * s) }
    function overflow(s) {
        printf "{\"step\":%d,\"event\":\"overflow\",\"scale\":%d,\"next_scale\":%d,\"tensor\":\"blocks.1.mlp.in.weight\",\"block\":\"blocks.1\"}\n", s, scale, scale - 1
    }
    function outlier(s, worker) {
        printf "{\"step\":%d,\"event\":\"outlier\",\"group\":%d,\"worker\":%d,\"first_sample\":%d,\"samples\":2,\"norm\":8.4,\"median\":0.7,\"spread\":0.2,\"score\":12,\"angle_deg\":41,\"length_with\":2.2,\"length_without\":0.7,\"action\":\"warn\"}\n", s, 2 * worker, worker, 16 * s
    }
    BEGIN {
        scale = kind == "underflow" ? 2 : 18
        for (s = 1; s <= 300; s++) {
            loss = 2 + 3.5 * exp(-s / 40) + 0.02 * noise(s); norm = 0.7 + 0.1 * sin(3.3 * s); skip = 0
            if (kind == "data" && s > 120 && s % 23 == 0) loss += 0.5
            if (kind == "lr" && s > 150) { loss += 0.05 * (s - 150) * (1 + 0.1 * noise(s)); norm += 0.04 * (s - 150) }
            if (kind == "healthy" && s < 5 || kind == "overflow" && s > 200 && s % 3) skip = 1
            if (kind == "outlier" && s > 100 && s % 37 == 0) outlier(s, 2)
            if (skip) overflow(s)
            printf "{\"step\":%d,\"loss\":%.6f,\"norm\":%s,\"lr\":%g,\"ms\":105", s, loss, skip ? "\"inf\"" : norm, 0.001 * (s < 20 ? s / 20 : 1)
            if (kind ~ /flow|healthy/) printf ",\"scale\":%d%s", scale, skip ? ",\"skipped\":true" : ""
            if (skip) scale--
            slow = kind == "slow" && s > 100 ? 2 : 1
            printf ",\"busy_ms\":[%.1f,%.1f,%.1f,%.1f]", 50 + noise(s), 51 - noise(s), 50 + noise(s + 1), (49 + noise(s + 2)) * slow
            printf ",\"wait_ms\":[%.1f,%.1f,%.1f,%.1f]}\n", 53 * slow - 50, 53 * slow - 51, 53 * slow - 50, 4
            if (kind == "bare" || s % 10) continue
            for (b = 0; b < 4; b++) {
                name = b == 0 ? "embedding" : b == 3 ? "head" : "blocks." (b - 1)
                flushed = kind == "underflow" && (b == 1 || b == 2) ? 0.42 : 0.01
                high = kind == "overflow" && b == 2 && s > 150 ? 0.0001 * exp((s - 150) / 10) : 0.00001
                lost = kind == "lost" && s > 40 ? 0.6 : 0.004
                printf "{\"step\":%d,\"numerics\":\"%s\",\"grad_norm\":0.3,\"weight_norm\":20,\"update_norm\":%g,\"grad_flushed\":%g,\"grad_high\":%g,\"act_flushed\":%g,\"act_high\":%g,\"lost\":%g}\n", s, name, kind == "lr" ? 1.5 : 0.06, flushed / 2, high / 2, flushed, high, lost
            }
        }
        if (kind == "overflow") printf "{\"step\":300,\"event\":\"stopped\",\"reason\":\"the loss scale is at its floor\"}\n"
    }' > run/metrics.jsonl
}
