"""Describe a practice cluster, and make the texts of its configuration files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

# A Unix socket's name has at most 107 bytes; the longest below a folder is a job step's.
_MAX_FOLDER_LENGTH = 60
_FOLDER = re.compile(r"/[\w./+-]+", re.ASCII)
ACCOUNT = "bench@v100"


class PracticeError(Exception):
    """An error of a practice cluster; the message is a sentence that includes a remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of a practice cluster.

    folder: the folder for all files of the cluster; it is removed with the cluster.
    nodes_32g, nodes_16g: how many nodes have the feature v100-32g, and how many v100-16g.
    max_array_size: Slurm's MaxArraySize; the indices of a job array are smaller than this number.
    with_accounting: whether slurmdbd and MariaDB run. Then sacct answers, and Slurm enforces
        accounts, QOS and their limits.
    min_job_age_seconds: Slurm's MinJobAge; slurmctld forgets a job this many seconds after the
        job's end. slurmctld looks for such jobs at most every ten seconds, so it may forget a job
        later. With accounting, sacct still returns the job.
    timeout_seconds: how long Slurm waits for a node, the controller, or the answer to a message.
    slow_to_accept: whether a plug-in delays each submitted job by the seconds in the file
        `submit_seconds`.
    """

    folder: Path
    nodes_32g: int = 4
    nodes_16g: int = 2
    max_array_size: int = 1001
    with_accounting: bool = False
    min_job_age_seconds: int = 300
    timeout_seconds: int = 30
    slow_to_accept: bool = False

    @property
    def names_32g(self) -> tuple[str, ...]:
        """Return the names of the nodes with 32 GB GPUs."""
        return tuple(f"gpu{number:03}" for number in range(1, self.nodes_32g + 1))

    @property
    def names_16g(self) -> tuple[str, ...]:
        """Return the names of the nodes with 16 GB GPUs."""
        first = self.nodes_32g + 1
        return tuple(f"gpu{number:03}" for number in range(first, first + self.nodes_16g))

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of all nodes."""
        return self.names_32g + self.names_16g

    @property
    def slurm_conf(self) -> Path:
        """Return the path of slurm.conf, the value of SLURM_CONF."""
        return self.folder / "etc" / "slurm.conf"

    @property
    def submit_seconds(self) -> Path:
        """Return the file with the seconds by which a plug-in delays each submitted job."""
        return self.folder / "etc" / "submit_seconds"

    @property
    def munge_socket(self) -> Path:
        """Return the socket of munged, which issues credentials."""
        return self.folder / "run" / "munge.socket"

    @property
    def mariadb_socket(self) -> Path:
        """Return the socket of the database, which listens on no port."""
        return self.folder / "run" / "mariadb.socket"

    def check(self) -> None:
        """Raise PracticeError if a cluster with these settings is impossible."""
        if not _FOLDER.fullmatch(str(self.folder)) or len(str(self.folder)) > _MAX_FOLDER_LENGTH:
            raise PracticeError(
                f"{self.folder}: give an absolute path of letters, digits and /._+- with at most "
                f"{_MAX_FOLDER_LENGTH} characters, because Slurm does not quote it, and sockets "
                "need a short one"
            )
        if min(self.nodes_32g, self.nodes_16g) < 0 or not 1 <= len(self.nodes) <= 999:
            raise PracticeError(f"{len(self.nodes)} nodes: give between 1 and 999")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine on which the practice cluster runs.

    user: the user who starts the daemons. If the user is root, daemons run jobs of every user,
    otherwise only jobs of this user. ports: one for slurmctld, one for slurmdbd, then one per node.
    slurm_version: e.g. (22, 5).
    """

    name: str
    user: str
    ports: tuple[int, ...]
    slurm_version: tuple[int, int]


def files(plan: Plan, host: Host) -> Mapping[str, str]:
    """Return the texts of a cluster's configuration files, by path below its folder."""
    texts = {
        "etc/slurm.conf": _slurm_conf(plan, host),
        "etc/gres.conf": f"Name=gpu Type=v100 File={plan.folder}/dev/nvidia[0-3]\n",
        # Without the name of a plugin, slurmd looks for cgroups, and ends if there are none.
        "etc/cgroup.conf": "CgroupPlugin="
        + ("disabled\n" if host.slurm_version >= (23, 11) else "cgroup/v1\nCgroupAutomount=no\n"),
        "etc/hosts": _hosts(plan, host),
        "etc/task_prolog.sh": _task_prolog(plan),
    }
    if plan.slow_to_accept:
        texts["etc/job_submit.lua"] = _job_submit(plan)
        texts["etc/submit_seconds"] = "0\n"
    if plan.with_accounting:
        texts["etc/slurmdbd.conf"] = _slurmdbd_conf(plan, host)
    return texts


def accounts(user: str) -> str:
    """Return commands for sacctmgr that add the cluster, two QOS, an account and `user`."""
    return f"""\
add cluster practice
add qos dev MaxWall=2:00:00 Flags=DenyOnLimit Priority=100
add qos long MaxWall=100:00:00
add account {ACCOUNT} Description=benchmarks Organization=practice
add user {user} Account={ACCOUNT} DefaultAccount={ACCOUNT} QOS=normal,dev,long DefaultQOS=normal
"""


def _slurm_conf(plan: Plan, host: Host) -> str:
    folder, (slurmctld_port, slurmdbd_port, *_) = plan.folder, host.ports
    accounting = "AccountingStorageType=accounting_storage/none"
    if plan.with_accounting:
        # Commands that ask slurmdbd find munge's socket in AccountingStoragePass, not in AuthInfo.
        accounting = f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={slurmdbd_port}
AccountingStoragePass={plan.munge_socket}
AccountingStorageTRES=gres/gpu,gres/gpu:v100
AccountingStorageEnforce=associations,limits,qos"""
    return f"""\
ClusterName=practice
SlurmctldHost={host.name}(127.0.0.1)
SlurmctldPort={slurmctld_port}
SlurmUser={host.user}
SlurmdUser={host.user}
CommunicationParameters=NoCtldInAddrAny

AuthType=auth/munge
CredType=cred/munge
# A requeued job waits for its old credential to expire: 120 s by default.
AuthInfo=socket={plan.munge_socket},cred_expire=5

StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/%n.log

{accounting}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=UsePss,OverMemoryKill
JobCompType=jobcomp/none

# The nodes claim cores, memory and GPUs that this machine need not have.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/etc/task_prolog.sh
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
RebootProgram=/bin/true
PropagateResourceLimits=NONE

SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=1
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
MaxArraySize={plan.max_array_size}
MaxJobCount=20000
MinJobAge={plan.min_job_age_seconds}
KillWait=3
InactiveLimit=0
MessageTimeout={plan.timeout_seconds}
SlurmctldTimeout={plan.timeout_seconds}
SlurmdTimeout={plan.timeout_seconds}
ReturnToService=2
{"JobSubmitPlugins=lua" if plan.slow_to_accept else ""}

GresTypes=gpu
NodeName=DEFAULT Sockets=2 CoresPerSocket=20 ThreadsPerCore=2 RealMemory=190000 Gres=gpu:v100:4
{chr(10).join(_nodes(plan, host))}
PartitionName=DEFAULT Nodes=ALL State=UP DefaultTime=00:30:00 DefMemPerCPU=2048 PriorityTier=2
PartitionName=v100 Default=YES MaxTime=100:00:00 PreemptMode=OFF
PartitionName=dev MaxTime=02:00:00 PreemptMode=OFF
PartitionName=preemptible MaxTime=20:00:00 PreemptMode=REQUEUE PriorityTier=1
"""


def _nodes(plan: Plan, host: Host) -> Iterator[str]:
    for name, port in zip(plan.nodes, host.ports[2:], strict=True):
        feature = "v100-32g" if name in plan.names_32g else "v100-16g"
        yield (
            f"NodeName={name} NodeHostname={host.name} NodeAddr=127.0.0.1 Port={port} "
            f"Feature=v100,{feature}"
        )


def _slurmdbd_conf(plan: Plan, host: Host) -> str:
    folder = plan.folder
    return f"""\
AuthType=auth/munge
AuthInfo=socket={plan.munge_socket},cred_expire=5
DbdHost={host.name}
DbdAddr=127.0.0.1
DbdPort={host.ports[1]}
SlurmUser={host.user}
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser={host.user}
StorageLoc=slurm
"""


def _hosts(plan: Plan, host: Host) -> str:
    """Return a hosts file in which each node has its own loopback address.

    So programs see the nodes as different hosts. Each IPv4 address is also listed in IPv6 form:
    torch asks for IPv6 addresses, and libnss_wrapper does not convert IPv4 addresses.
    """
    names = {str(IPv4Address("127.0.1.1") + index): name for index, name in enumerate(plan.nodes)}
    lines = [f"{address} {name}\n::ffff:{address} {name}" for address, name in names.items()]
    return "\n".join(["127.0.0.1 localhost", f"127.0.0.1 {host.name}", *lines]) + "\n"


def _job_submit(plan: Plan) -> str:
    return f"""\
function slurm_job_submit(job, partitions, user)
  os.execute("sleep $(cat {plan.submit_seconds})")
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
  return slurm.SUCCESS
end
"""


def _task_prolog(plan: Plan) -> str:
    """Return the script that Slurm runs before each task of a job.

    With it, the programs of a task see the node's name as host name, and find the addresses of
    other nodes.
    """
    return f"""\
#!/bin/sh
echo "export SLURM_CONF={plan.slurm_conf}"
echo "export LD_PRELOAD=libnss_wrapper.so"
echo "export NSS_WRAPPER_HOSTS={plan.folder}/etc/hosts"
echo "export NSS_WRAPPER_HOSTNAME=$SLURMD_NODENAME"
"""
