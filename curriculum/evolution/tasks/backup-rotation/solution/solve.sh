#!/bin/bash
set -euo pipefail
cat > /app/backup.sh <<'SH'
#!/bin/bash
# backup.sh SOURCE TARGET
set -euo pipefail
[ -d "${1-}" ] || { echo "no folder: ${1-}" >&2; exit 1; }
source=$(cd "$1" && pwd)
mkdir -p "$2"
numbers() {
  local path
  for path in "$1"/backup-*.tar.gz; do
    if [[ $path =~ /backup-([1-9][0-9]*)\.tar\.gz$ ]]; then echo "${BASH_REMATCH[1]}"; fi
  done | sort -n
}
last=$(numbers "$2" | tail -n 1)
new="$2/backup-$((${last:-0} + 1)).tar.gz"
tar -czf "$new" -C "$(dirname "$source")" "$(basename "$source")"
numbers "$2" | head -n -3 | while read -r number; do rm "$2/backup-$number.tar.gz"; done
echo "$new"
SH
chmod +x /app/backup.sh
