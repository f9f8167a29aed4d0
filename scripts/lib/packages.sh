# SPDX-License-Identifier: Apache-2.0
# What the scripts need installed, and how they install it. Sourced by them.

# Debian package names. These lists are the only place that has them.
build_packages=(g++ cmake ninja-build libtbb-dev zlib1g-dev libcli11-dev nlohmann-json3-dev)
test_packages=("${build_packages[@]}" ccache doctest-dev pkg-config python3 abigail-tools
               libopenmpi-dev openmpi-bin)
# What the parts of scripts/test need beside those.
style_packages=(clang-format-14 clang-tidy-14)
cpu_packages=()
clang_packages=(clang)
sanitize_packages=()
fuzz_packages=(clang libclang-rt-14-dev)
kokkos_packages=(libtrilinos-kokkos-dev libbenchmark-dev)
hip_packages=(hipcc libamdhip64-dev rocm-device-libs clang-15 llvm-15)
cuda_packages=()
python_packages=(python3-venv python3-dev)
aarch64_packages=(cmake ninja-build g++-aarch64-linux-gnu qemu-user)
aarch64_libraries=(doctest-dev libtbb-dev libtbb12 libtbbmalloc2 libtbbbind-2-5 zlib1g zlib1g-dev)

# say TEXT: a line of the script's own, apart from the tools' output.
say() { printf '==> %s\n' "$*"; }

# fail TEXT: the same on stderr, then exit.
fail() {
  printf '==> %s\n' "$*" >&2
  exit 1
}

# missing_packages PACKAGE...: prints the packages that dpkg does not list as installed.
missing_packages() {
  local package
  for package in "$@"; do
    # shellcheck disable=SC2016  # ${Status} is dpkg-query's
    if [[ $(dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null) != "install ok installed" ]]; then
      printf '%s\n' "$package"
    fi
  done
}

is_debian_12() {
  [[ -r /etc/os-release ]] && (. /etc/os-release && [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]])
}

# as_root COMMAND...: runs it as root, by sudo where that is needed.
as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

# install_packages PACKAGE...: apt-get update and install, again if the network hiccups. Errors
# and warnings are shown, the list of what is unpacked is not.
install_packages() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq --yes -o Acquire::Retries=3
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  local attempt
  for attempt in 1 2 3; do
    if as_root "${apt[@]}" update >/dev/null &&
      as_root "${apt[@]}" install --no-install-recommends "$@" >/dev/null; then
      return 0
    fi
    if ((attempt < 3)); then
      say "apt-get failed; attempt $((attempt + 1)) of 3 in $((attempt * 10)) s"
      sleep $((attempt * 10))
    fi
  done
  return 1
}

# require_packages PACKAGE...: on Debian 12 installs those that are missing. Elsewhere, or
# without the right to, prints the names and goes on: the tools may be there all the same.
require_packages() {
  local missing=("$@")
  if is_debian_12; then
    mapfile -t missing < <(missing_packages "$@")
    if ((${#missing[@]} == 0)); then return 0; fi
    if ((EUID == 0)) || command -v sudo >/dev/null; then
      say "installing ${missing[*]}"
      install_packages "${missing[@]}" || fail "apt-get could not install ${missing[*]}"
      return 0
    fi
    say "not root and no sudo; going on without ${missing[*]}, as root: apt-get install ${missing[*]}"
  else
    say "this is not Debian 12; install what these of its packages hold: ${missing[*]}"
  fi
}

# require_commands COMMAND...: stops if one cannot be run.
require_commands() {
  local name absent=()
  for name in "$@"; do
    command -v "$name" >/dev/null || absent+=("$name")
  done
  if ((${#absent[@]} > 0)); then fail "not found: ${absent[*]}"; fi
}
