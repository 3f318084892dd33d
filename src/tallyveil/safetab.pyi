"""SafeTab: adaptive tables of detailed population groups.

The names come from `tallyveil.products.safetab.public`, where the code is.
"""

from tallyveil.products.safetab.public.calibration import budget_for_margin as budget_for_margin
from tallyveil.products.safetab.public.calibration import calibrate_plan as calibrate_plan
from tallyveil.products.safetab.public.config import SafetabConfig as SafetabConfig
from tallyveil.products.safetab.public.config import read_config as read_config
from tallyveil.products.safetab.public.files import convert_short_form as convert_short_form
from tallyveil.products.safetab.public.plan import LevelSet as LevelSet
from tallyveil.products.safetab.public.plan import RunPlan as RunPlan
from tallyveil.products.safetab.public.plan import SafetabPlan as SafetabPlan
from tallyveil.products.safetab.public.plan import make_plan as make_plan
from tallyveil.products.safetab.public.plan import read_plan as read_plan
from tallyveil.products.safetab.public.privacy import RunPrivacy as RunPrivacy
from tallyveil.products.safetab.public.privacy import privacy_of as privacy_of

__all__: list[str]
