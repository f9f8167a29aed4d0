# SPDX-License-Identifier: Apache-2.0
# What scripts/test checks without running anything. Sourced by it, after root is set.

is_checkout() { git -C "$root" rev-parse --verify --quiet HEAD >/dev/null 2>&1; }

# project_files: git's list where there is a checkout, else everything but build and .git.
project_files() {
  cd "$root"
  git ls-files --cached --others --exclude-standard 2>/dev/null ||
    find . \( -path ./build -o -path ./.git \) -prune -o -type f -printf '%P\n'
}

# changed_files: those that differ from where this branch left the main one, and new ones.
changed_files() {
  local main base=HEAD
  cd "$root"
  for main in origin/HEAD origin/main main; do
    if git rev-parse --verify --quiet "$main" >/dev/null; then
      base=$(git merge-base HEAD "$main" || echo HEAD)
      break
    fi
  done
  git diff --name-only --diff-filter=d "$base"
  git ls-files --others --exclude-standard
}

format_is_clean() {
  cd "$root"
  project_files | grep -E '\.(hpp|cpp|inl|cuh?|hip)$' |
    xargs --no-run-if-empty clang-format-14 --dry-run -Werror
}

# Every source starts with the SPDX line, after a "#!" line if it has one.
licence_is_named() {
  local file wrong=0
  cd "$root"
  while read -r file; do
    if ! head -n 2 "$file" | sed '1{/^#!/d;}' | head -n 1 |
      grep -q 'SPDX-License-Identifier: Apache-2\.0$'; then
      echo "$file: the first line is not the SPDX line"
      wrong=1
    fi
  done < <(project_files |
    grep -E '\.(hpp|cpp|h|c|inl|cuh?|hip|cmake|in|sh|py)$|(^|/)CMakeLists\.txt$|^scripts/|^\.ci/|^\.clang-tidy$')
  return "$wrong"
}

# tidied_sources everything|changes: the sources of the cpu backend's build but for tests; or of
# them those that changed, and for each header that did the first that includes it.
tidied_sources() {
  local sources file included
  sources=$(sed -nE "s|^ *\"file\": \"$root/((core\|tools\|backends)/.*\.cpp)\",?\$|\1|p" \
    build/cpu/compile_commands.json | sort -u)
  if [[ $1 == everything ]]; then  # of the kernels' instruction sets one: they are the same templates
    grep -vE '/isa/(baseline|avx2|avx512_bf16|amx)\.cpp$' <<<"$sources"
    return 0
  fi
  # A line for each source: its name, then what it includes.
  included=$(clang-scan-deps-14 -j "$jobs" -compilation-database=build/cpu/compile_commands.json |
    tr -d '\\\n' | sed "s|[^ ]*\.o: |\n|g; s|$root/||g" | sed -E 's/^ +//; s/$/ /')
  changed_files | grep -E '\.(hpp|cpp|inl)$' | while read -r file; do
    grep -xF "$file" <<<"$sources" ||
      grep -F " $file " <<<"$included" | cut -d ' ' -f 1 | grep -xF "$sources" | head -n 1
  done | sort -u
}

# The analyzer looks deep into what changed, for a minute in some sources; not into everything.
tidy_is_clean() {
  local sources depth=()
  if [[ $1 == everything ]]; then
    depth=(--extra-arg={-Xclang,-analyzer-config,-Xclang,mode=shallow})
  fi
  cd "$root"
  cmake --preset cpu
  sources=$(tidied_sources "$1")
  echo "$sources"
  xargs --no-run-if-empty --max-args=1 --max-procs="$jobs" \
    clang-tidy-14 --quiet --warnings-as-errors='*' "${depth[@]}" -p build/cpu <<<"$sources"
}
