"""Layered configuration files become the settings that hold."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.fixtures import WORDS
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File


class MergeIni(Source):
    gives, skill = Table, "ini: layered configuration"

    def step(self, rng, place, given):
        sections = rng.sample(WORDS, 4)
        keys = ("limit", "timeout", "workers", "retries", "depth")
        layers = ["00-base.ini", "10-site.ini", "20-host.ini", "90-local.ini"]
        held: dict[tuple[str, str], tuple[int, str]] = {}
        fixture, folder = {}, place.data("conf.d")
        for layer in layers:
            lines = [f"; {layer}"]
            for section in sections:
                chosen = [key for key in keys if rng.random() < (0.9 if layer == layers[0] else 0.35)]
                if chosen:
                    lines.append(f"[{section}]")
                for key in chosen:
                    value = rng.randint(1, 500)
                    held[section, key] = (value, layer)
                    lines.append(f"{key}{rng.choice((' = ', '=', ' =  '))}{value}")
            fixture[f"{folder}/{layer}"] = File(("\n".join(lines) + "\n").encode())
        fixture[f"{folder}/30-old.ini.disabled"] = File(f"[{sections[0]}]\nlimit = 0\n".encode())
        columns = (
            Column("section", "category"),
            Column("key", "category"),
            Column("value", "number"),
            Column("file", "category"),
        )
        rows = tuple((s, k, v, f) for (s, k), (v, f) in sorted(held.items()))
        table = Table(place.out(".csv"), columns, rows)
        text = (
            f"The program that reads `{folder}` takes the files ending in `.ini` in the order of their names; later values "
            f"replace earlier ones. Write the settings that hold to `{table.path}`, sorted by section and key, with the "
            "columns section, key, value, file (the name of the file that set the value)."
        )
        solve = f"""for f in {folder}/*.ini; do
  awk -v file="$(basename "$f")" -F' *= *' '/^\\[/ {{ gsub(/[][]/, ""); section = $0; next }} NF == 2 {{ print section "," $1 "," $2 "," file }}' "$f"
done | awk -F, '{{ held[$1 "," $2] = $3 "," $4 }} END {{ for (k in held) print k "," held[k] }}' | LC_ALL=C sort -t, -k1,1 -k2,2 | {{ echo section,key,value,file; cat; }} > {table.path}"""
        return Step(table, text, solve, fixture=fixture)


NODE = MergeIni()
