"""Runs the program, which is installed beside Python's scripts."""

import os
import shutil
import sys
import sysconfig


def main() -> None:
    schemes = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    # `pip install --target` puts it beside the module.
    schemes.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin"))
    program = shutil.which("switchboard", path=os.pathsep.join(schemes))
    if program is None:
        sys.exit("error: the program is missing from this package\nhint: install switchboard-cli again")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
