"""What an hour of an instance costs where the operator's own table says nothing. Data, not code.

List prices as known in November 2026, in US dollars an hour: Amazon EC2, on demand, Linux, us-east-1, which is what an
operator pays for the machines that the `ec2` provider starts (`ml.g5.2xlarge` is a `g5.2xlarge`). The managed service
asks more for the same machine, other regions and agreements differ, and spot prices move by the minute, so none is
listed: HEADRACE_PRICES wins, and a type that is in neither table has no known price.
"""

from collections.abc import Iterator, Mapping

_TABLE = """
t2    medium 0.0464  large 0.0928  xlarge 0.1856  2xlarge 0.3712
m5    large 0.096  xlarge 0.192  2xlarge 0.384  4xlarge 0.768  12xlarge 2.304  24xlarge 4.608
m6i   large 0.096  xlarge 0.192  2xlarge 0.384  4xlarge 0.768  8xlarge 1.536  12xlarge 2.304  16xlarge 3.072  24xlarge 4.608
c5    large 0.085  xlarge 0.17  2xlarge 0.34  4xlarge 0.68  9xlarge 1.53  18xlarge 3.06
c6i   large 0.085  xlarge 0.17  2xlarge 0.34  4xlarge 0.68  8xlarge 1.36  12xlarge 2.04  16xlarge 2.72  24xlarge 4.08
c7i   large 0.08925  xlarge 0.1785  2xlarge 0.357  4xlarge 0.714  8xlarge 1.428  12xlarge 2.142  16xlarge 2.856
r5    large 0.126  xlarge 0.252  2xlarge 0.504  4xlarge 1.008  12xlarge 3.024  24xlarge 6.048
g4dn  xlarge 0.526  2xlarge 0.752  4xlarge 1.204  8xlarge 2.176  12xlarge 3.912  16xlarge 4.352
g5    xlarge 1.006  2xlarge 1.212  4xlarge 1.624  8xlarge 2.448  12xlarge 5.672  16xlarge 4.096  24xlarge 8.144
g5    48xlarge 16.288
g6    xlarge 0.8048  2xlarge 0.9776  4xlarge 1.3232  8xlarge 2.0144  12xlarge 4.6016  16xlarge 3.3968  24xlarge 6.6752
g6    48xlarge 13.3504
g6e   xlarge 1.861  2xlarge 2.24208  4xlarge 3.00424  8xlarge 4.52856  12xlarge 10.49264  16xlarge 7.57719
g6e   24xlarge 15.06559  48xlarge 30.13118
p3    2xlarge 3.06  8xlarge 12.24  16xlarge 24.48
p4d   24xlarge 21.95764
p5    48xlarge 55.04
inf1  xlarge 0.228  2xlarge 0.362  6xlarge 1.18  24xlarge 4.721
inf2  xlarge 0.7582  8xlarge 1.96786  24xlarge 6.49063  48xlarge 12.98127
trn1  2xlarge 1.34375  32xlarge 21.5
"""


def _read(table: str) -> Iterator[tuple[str, float]]:
    for line in table.strip().splitlines():
        family, *cells = line.split()
        yield from ((f"ml.{family}.{size}", float(price)) for size, price in zip(cells[::2], cells[1::2], strict=True))


LIST_PRICES: Mapping[str, float] = dict(_read(_TABLE))
"""Instance type -> US dollars an hour, on demand."""
