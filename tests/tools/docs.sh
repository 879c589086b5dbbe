#!/usr/bin/env bash
# docs.sh: checks that everything that pages and pictures of the documentation name exists (tools/check-docs), and that the check finds what does not.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ -z "${SANITIZE:-}" ] || { echo "it runs nothing that a sanitizer sees"; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-docs-test.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
failures=0

fail() {
    echo "FAIL $*"
    failures=$((failures + 1))
}

tools/check-docs || fail "tools/check-docs found the errors above"

# The page about models names every family, every field of a shape file and every Hugging Face model type.
models=docs/reference/models.md
for name in $(sed -n -e 's/^LS_FIELD[A-Z_]*([A-Z_]*, [A-Z]*, [A-Za-z_.]*, "\([a-z-]*\)".*/\1/p' src/nn/fields.def) \
    $(sed -n 's/^LS_FAMILY([A-Z0-9]*, "\([a-z0-9]*\)".*/\1/p' src/nn/families.def); do
    grep -q "\`$name\`" $models || fail "$models does not describe $name of src/nn/fields.def or families.def"
done

# One name for each option: --auto is accepted for old commands, and no page uses it.
grep -nE -e '--auto([^-[:alnum:]]|$)' README.md CHANGELOG.md docs/*.md docs/*/*.md && fail "the option is called --auto-layout"

# A small project, sound at first.
mkdir -p "$scratch/docs/img" "$scratch/src/base"
echo >"$scratch/src/base/hash.c"
echo '<svg><text class="f">src/base/hash.c</text></svg>' >"$scratch/docs/img/a.svg"
# shellcheck disable=SC2016 # backquotes of Markdown
printf '%s\n' '# A' '' '## Two words' '' 'See `src/base/hash.c` and [B](b.md#what-is-here), [web](https://example.org/x).' >"$scratch/docs/a.md"
# shellcheck disable=SC2016
printf '%s\n' '# B' '' '## What is here' '' '```' '[no link](nowhere.md) `src/nowhere.c`' '```' '[top](#what-is-here)' >"$scratch/docs/b.md"
printf '%s\n' '# Docs' '[a](a.md) [b](b.md)' >"$scratch/docs/README.md"
out=$(tools/check-docs "$scratch") || fail "a sound project is refused: $out"

# wrong NAME FILE LINE EXPECTED: with the line added to the file, the check fails and names what is wrong.
wrong() {
    cp "$scratch/$2" "$scratch/saved"
    printf '%s\n' "$3" >>"$scratch/$2"
    out=$(tools/check-docs "$scratch") && fail "$1: not noticed"
    case "$out" in *"$4"*) ;; *) fail "$1: expected '$4', got '$out'" ;; esac
    mv "$scratch/saved" "$scratch/$2"
}
wrong "a link to no file" docs/a.md '[x](gone.md)' 'docs/a.md:6: no such file: gone.md'
wrong "a link to no heading" docs/a.md '[x](b.md#gone)' 'docs/a.md:6: no heading for b.md#gone'
# shellcheck disable=SC2016 # backquotes of Markdown
wrong "a path to no file" docs/a.md 'in `src/base/gone.c`' 'docs/a.md:6: no such file: src/base/gone.c'
wrong "a path in a picture" docs/img/a.svg '<text>src/gone</text>' 'docs/img/a.svg: no such file: src/gone'
echo '# C' >"$scratch/docs/c.md"
out=$(tools/check-docs "$scratch") && fail "a page that is not listed: not noticed"
case "$out" in *'docs/c.md: not listed in docs/README.md'*) ;; *) fail "a page that is not listed: got '$out'" ;; esac

# Commands of the blocks that hold some.
cat >"$scratch/docs/c.md" <<'END'
```sh
git clone ADDRESS lockstep && cd lockstep
./lockstep train --model tiny \
    --steps 3 &   # a comment
```

    lockstep doctor RUN      what is wrong
    lockstep: error: no command

```yaml
          command: [lockstep, train, --out, run]
```
```
lockstep eval --model x
```
END
expected='docs/c.md:3	./lockstep train --model tiny --steps 3
docs/c.md:7	lockstep doctor RUN
docs/c.md:11	lockstep train --out run'
out=$(tools/check-docs --commands "$scratch")
[ "$out" = "$expected" ] || fail "the commands of a page: $out"

[ "$failures" -eq 0 ]
