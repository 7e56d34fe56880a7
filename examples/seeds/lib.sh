# What the scripts beside this file share; each sets `here`, its folder, and `dir`, where it draws.
jitlat=${JITLAT:-jitlat}
testdata=$here/../../testdata

# remade FIGURES SAID WHY ARGUMENT…: runs jitlat, and prints its command, what the document prints, why it differs, and what was drawn
remade() {
    figures=$1 said=$2 why=$3
    shift 3
    printf 'jitlat'
    printf ' %s' "$@" | sed "s|$here/\.\./\.\./||g; s|$here/||g"
    printf '\n\n'
    "$jitlat" "$@"
    printf '\nin the document: %s\nwhy it differs: %s\n' "$said" "$why"
    for name in $figures; do printf 'drawn: %s/%s.svg\n' "$dir" "$name"; done
}
