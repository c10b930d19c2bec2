from .grants import Grant as Grant
from .grants import charge as charge
from .grants import randomize_batch as randomize_batch
from .parts import check_new_folder as check_new_folder
from .parts import write_parts as write_parts
