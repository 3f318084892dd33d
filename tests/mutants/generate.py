"""Let mutmut make the mutants of the folder that the process was started in, without running any.

Names of mutants are known only then, and a sample needs the names.
"""

from mutmut.__main__ import create_mutants
from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir

if __name__ == "__main__":
    copy_src_dir()
    copy_also_copy_files()
    create_mutants(max_children=1)
