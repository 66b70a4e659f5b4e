"""stub"""
from typing import Any
def read_native(module: Any, raws: Any, wanted: Any, samples: Any, *, whole: bool) -> Any:
    from gapless.chains.evm.reading import read
    return read(raws, wanted, samples, whole=whole)
