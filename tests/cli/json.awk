# json.awk: one line of "path value" for each number, string, true, false and null of a JSON text, and ".list.length N" for each array;
# what is not JSON ends with status 1. So a case can check members, and that the whole output is JSON, without another program:
#
#   $ "$LOCKSTEP" plan --json | awk -f "$REPO/tests/cli/json.awk"
#   out~ ^\.rows\.0\.layout\.dp 32$

{ text = text $0 "\n" }
END { value(""); skip(); if (at <= length(text)) wrong("something follows the value") }
BEGIN { at = 1 }

function wrong(why) {
    if (!failed) print "not JSON: " why " at byte " at ": " substr(text, at, 30) > "/dev/stderr"
    failed = 1
    exit 1
}

function skip() { while (index(" \t\n\r", substr(text, at, 1)) && at <= length(text)) at++ }

# The next byte, after white space, has to be this one.
function take(byte) {
    skip()
    if (substr(text, at, 1) != byte) wrong("no " byte)
    at++
}

function peek() { skip(); return substr(text, at, 1) }

# A string, without its quotes and with its escapes as they stand.
function string(    begin, byte) {
    take("\"")
    begin = at
    while ((byte = substr(text, at, 1)) != "\"") {
        if (at > length(text) || byte < " ") wrong("a string that does not end")
        if (byte == "\\") {
            at++
            byte = substr(text, at, 1)
            if (byte == "u" && substr(text, at + 1, 4) !~ /^[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f]$/) wrong("a bad \\u")
            if (!index("\"\\/bfnrtu", byte)) wrong("a bad escape")
        }
        at++
    }
    at++
    return substr(text, begin, at - begin - 1)
}

function value(path,    rest, count, name) {
    if (peek() == "{") {
        take("{")
        if (peek() == "}") { at++; return }
        do {
            name = string()
            if ((path, name) in seen) wrong("the second " name)
            seen[path, name] = 1
            take(":")
            value(path "." name)
        } while (another("}"))
    } else if (peek() == "[") {
        take("[")
        count = 0
        if (peek() == "]") at++
        else do value(path "." count++); while (another("]"))
        print path ".length " count
    } else if (peek() == "\"") {
        print path " " string()
    } else {
        rest = substr(text, at, 40)
        if (!match(rest, /^(true|false|null|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)/)) wrong("no value")
        print path " " substr(rest, 1, RLENGTH)
        at += RLENGTH
    }
}

# After a member or an element: whether another one follows.
function another(end,    byte) {
    byte = peek()
    at++
    if (byte != "," && byte != end) { at--; wrong("no , and no " end) }
    return byte == ","
}
