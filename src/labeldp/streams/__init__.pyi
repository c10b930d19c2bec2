from .aggregates import SAMPLE as SAMPLE
from .aggregates import bag_sum_file as bag_sum_file
from .aggregates import cell_model as cell_model
from .aggregates import fit_bags_file as fit_bags_file
from .aggregates import fit_cells_file as fit_cells_file
