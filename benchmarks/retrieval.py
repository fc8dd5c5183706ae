"""How well, and how fast, the store's search finds what is asked for.

python benchmarks/retrieval.py locomo10.json            # LoCoMo: the table
python benchmarks/retrieval.py locomo10.json --dense    # with the local model (extra `embed`)
python benchmarks/retrieval.py locomo10.json --tune 40  # weights chosen and judged on folds
python benchmarks/retrieval.py --languages              # Russian and Chinese
python benchmarks/retrieval.py --speed 100000           # search and put among so many items
"""

import argparse
from pathlib import Path

from retrieving.languages import print_languages
from retrieving.locomo import print_folds, print_table, read_locomo
from retrieving.speed import print_speed


def main() -> None:
    """Read the arguments and print what they ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path, nargs="?", help="locomo10.json")
    parser.add_argument("--dense", action="store_true", help="mix the local model's order in")
    parser.add_argument("--tune", type=int, metavar="TRIES", help="judge chosen weights on folds")
    parser.add_argument("--languages", action="store_true", help="Russian and Chinese")
    parser.add_argument("--speed", type=int, metavar="ITEMS", help="how fast it is among so many")
    parser.add_argument("--postgres-url", help="also measure the speed there")
    parser.add_argument("--redis-url", help="also measure the speed there")
    arguments = parser.parse_args()
    if not (arguments.path or arguments.languages or arguments.speed):
        parser.error("give the path of locomo10.json, --languages or --speed ITEMS")
    if arguments.path:
        conversations = read_locomo(arguments.path)
        if arguments.tune:
            print_folds(conversations, arguments.tune, dense=arguments.dense)
        else:
            print_table(conversations, dense=arguments.dense)
    if arguments.languages:
        print_languages()
    if arguments.speed:
        print_speed(arguments.speed, [arguments.postgres_url, arguments.redis_url])


if __name__ == "__main__":
    main()
