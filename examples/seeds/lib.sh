# Functions shared by the scripts in this folder; each sets `here`, its folder, and `dir`, the folder for drawings.
jitlat=${JITLAT:-jitlat}
testdata=$here/../../testdata

# remade FIGURES SAID WHY ARGUMENT…: runs jitlat, and prints its command, the document's values, the reason for differences, and the names of the drawings
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
